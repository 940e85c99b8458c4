"""An application that is measured, which peers import, too."""
