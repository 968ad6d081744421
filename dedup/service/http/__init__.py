"""The HTTP port of the table service: JSON, health, metrics and the dashboard."""
