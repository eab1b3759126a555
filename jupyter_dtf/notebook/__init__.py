"""What a person meets in a notebook: magics, displays, the page's half of things."""
