// Elements from descriptions, and their update in place: focus, scroll positions and typed text stay.
//
// Data becomes text nodes and attributes only. Nothing here, or anywhere in this page, parses markup.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "path", "line", "rect", "circle", "text", "title", "polyline"]);
const PROPERTIES = new Set(["value", "checked", "disabled", "open"]);
const ENTRIES = Symbol("entries");

/** Describe an element. Children are texts, numbers, elements, lists of them, or null. */
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, key: props?.key, children: children.flat(Infinity) };
}

/** Make the children of an element those that are described. */
export function render(parent, ...children) {
  updateChildren(parent, children.flat(Infinity), false);
}

function updateChildren(parent, wanted, isSvg) {
  const before = parent[ENTRIES] ?? [];
  if (!before.length) parent.replaceChildren();
  const keyed = new Map(before.filter((each) => each.key != null).map((each) => [each.key, each]));
  const others = before.filter((each) => each.key == null);
  let at = 0;
  const entries = wanted.map((child) => {
    const old = child?.key == null ? others[at++] : keyed.get(child.key);
    return updateNode(old, child, isSvg);
  });
  const nodes = new Set(entries.map((each) => each.node));
  for (const each of before) if (!nodes.has(each.node)) each.node.remove();
  entries.forEach(({ node }, place) => {
    if (parent.childNodes[place] !== node) parent.insertBefore(node, parent.childNodes[place] ?? null);
  });
  parent[ENTRIES] = entries;
}

function updateNode(old, child, isSvg) {
  if (child == null || typeof child !== "object") {
    const text = child == null || child === false || child === true ? "" : String(child);
    if (old && old.tag == null) {
      if (old.node.data !== text) old.node.data = text;
      return old;
    }
    return { node: document.createTextNode(text), tag: null, key: null, props: {} };
  }
  const inSvg = isSvg || child.tag === "svg";
  const isNew = !old || old.tag !== child.tag;
  const namespaced = inSvg && SVG_TAGS.has(child.tag);
  const node = !isNew
    ? old.node
    : namespaced ? document.createElementNS(SVG, child.tag) : document.createElement(child.tag);
  const last = isNew ? {} : old.props;
  updateChildren(node, child.children, inSvg);
  for (const name in last) if (!(name in child.props)) setProperty(node, name, null);
  for (const name in child.props) {
    if (child.props[name] !== last[name]) setProperty(node, name, child.props[name]);
  }
  if (isNew && child.props.onmount) queueMicrotask(() => child.props.onmount(node));
  return { node, tag: child.tag, key: child.key, props: child.props };
}

function setProperty(node, name, value) {
  if (name === "key" || name === "onmount") return;
  if (name.startsWith("on")) node[name] = value;
  else if (name === "style") setStyle(node, value ?? {});
  else if (PROPERTIES.has(name)) node[name] = value ?? "";
  else if (value == null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}

function setStyle(node, style) {
  for (const name in style) node.style.setProperty(name, style[name]);
}
