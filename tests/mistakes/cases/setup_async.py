# application_setup that is declared with async def.
# $ wallaroo check application.py
from parts import LINES, SINK, built


async def application_setup(args):
    return built(LINES.to_sink(SINK))
