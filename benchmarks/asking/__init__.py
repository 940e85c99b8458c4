"""An application that waits, which plain asyncio imports, too."""
