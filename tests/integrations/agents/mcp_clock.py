"""An MCP server with one tool, on standard input and output."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("clock")


@server.tool()
def time_in(place: str) -> str:
    """What time it is there."""
    return f"noon in {place}"


if __name__ == "__main__":
    server.run()
