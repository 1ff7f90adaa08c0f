"""Where values come from (sources) and what must stay true of them (guards). Layer 2."""
