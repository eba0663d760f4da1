"""The options for Java in tests: quick compilation only, without later optimisation.

That halves the processor time of a JVM that runs for less than a minute, be it Spark or a broker.
"""

FAST = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
FOR_ALL = {"JAVA_TOOL_OPTIONS": " ".join(FAST)}
"""Set in the environment of a process, and of those that it starts."""
