"""What any process asks of the machine that it runs on."""
