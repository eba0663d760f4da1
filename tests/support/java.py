"""The options for Java in tests: quick compilation only, without later optimisation.

That halves the processor time of a JVM that runs for less than a minute, be it Spark or a broker.
With quick compilation only, Java has 48 MB for compiled code. The session of Spark that tests share
fills them within two minutes, and Java would then give up compiled code that it needs again.
"""

FAST = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=240m")
FOR_ALL = {"JAVA_TOOL_OPTIONS": " ".join(FAST)}
"""Set in the environment of a process, and of those that it starts."""
