"""What the table service does, whichever port was asked: no socket, no clock."""
