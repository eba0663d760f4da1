// Requests to the server, with the token of the page's URL.

const TOKEN = "headrace-token";

export class ApiError extends Error {
  constructor(status, error) {
    super(error.message);
    Object.assign(this, { status, code: error.code, hint: error.hint ?? "" });
  }
}

/** The role of the token, as the last answer said: "owner", "viewer" or null. */
export let role = null;

/** Take the token out of the URL, so that it is neither shown nor copied with it. */
export function adoptToken() {
  const found = /^#token=([A-Za-z0-9_-]+)$/.exec(location.hash);
  if (!found) return;
  sessionStorage.setItem(TOKEN, found[1]);
  history.replaceState(null, "", "#/");
}

export function hasToken() {
  return sessionStorage.getItem(TOKEN) != null;
}

export function setToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

export function jobPath(name, ...rest) {
  return ["/v1/jobs", ...[name, ...rest].map(encodeURIComponent)].join("/");
}

async function send(method, path, { body, generation, signal } = {}) {
  const headers = { Authorization: `Bearer ${sessionStorage.getItem(TOKEN) ?? ""}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (generation != null) headers["If-Match"] = `"${generation}"`;
  const answer = await reach(fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) }), signal);
  role = answer.headers.get("Headrace-Role") ?? role;
  if (!answer.ok) {
    const text = await reach(answer.text(), signal);
    let error = { code: "failed", message: text };
    try { error = JSON.parse(text).error ?? error; } catch { /* not JSON */ }
    throw new ApiError(answer.status, error);
  }
  return answer;
}

/** An answer or its body; an ApiError if the connection is lost before its end. */
async function reach(received, signal) {
  try {
    return await received;
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, { code: "unreachable", message: "the server does not answer", hint: "" });
  }
}

export async function getJson(path, options) {
  return reach((await send("GET", path, options)).json(), options?.signal);
}

export async function getText(path) {
  return reach((await send("GET", path)).text());
}

export async function post(path, body, options) {
  return reach((await send("POST", path, { ...options, body })).json(), options?.signal);
}

export async function open(path, body, signal) {
  return (await send("POST", path, { body, signal })).body;
}

/** Send a request that takes long, and return the operation when it is over. */
export async function runOperation(name, action, body, generation, report) {
  const isOwn = action === "restart" || action === "upgrade";
  let operation = await post(jobPath(name, action), body, { generation });
  const path = isOwn ? `/v1/operations/${operation.id}` : jobPath(name, "operations", operation.id ?? "");
  while (operation.state === "waiting" || operation.state === "running") {
    report(operation.progress?.words || "waiting for the job");
    operation = await getJson(`${path}?wait_s=1`);
  }
  if (operation.error) throw new ApiError(409, operation.error);
  return operation;
}
