"""How the Java of tests is started: what it compiles at once, it does not compile well later.

That takes half of the processor time of one that is over within a minute, be it Spark or a broker.
"""

FAST = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
FOR_ALL = {"JAVA_TOOL_OPTIONS": " ".join(FAST)}
"""In the environment of a process, and of those that it starts."""
