"""Every connector there is. cli hands this to core, which knows connectors only by their record."""

from __future__ import annotations

from headrace.connectors.console import CONSOLE
from headrace.connectors.files import FILES
from headrace.connectors.generate import GENERATE
from headrace.connectors.nexmark import NEXMARK
from headrace.connectors.standard import STDIN, STDOUT
from headrace.core.contracts import Connectors

REGISTRY: Connectors = {
    connector.name: connector for connector in (FILES, NEXMARK, GENERATE, CONSOLE, STDIN, STDOUT)
}
