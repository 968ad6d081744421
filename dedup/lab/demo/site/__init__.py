"""The generated site: its plan, its pages as bytes, and the server that shows it."""
