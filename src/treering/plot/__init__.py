"""Pictures of readings: in the terminal, and as PNG."""

from treering.plot.pictures import PlotLine, plan_lines, render_plot, thin_line, write_png

__all__ = ["PlotLine", "plan_lines", "render_plot", "thin_line", "write_png"]
