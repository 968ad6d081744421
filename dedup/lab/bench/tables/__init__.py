"""The tables beside other libraries: what is compared, on which data, and how it is shown."""
