"""Files of readings: CSV, JSON lines and Parquet, in and out, in bounded memory."""
