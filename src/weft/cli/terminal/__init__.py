"""What reaches the screen: words, tables, times, bars and questions. No command lives here."""
