// The elements of the pages of experiments.

import { ColumnChooser } from "./column_chooser.ts";
import { CurveBoard } from "./curve_board.ts";
import { FilterBox } from "./filter_box.ts";
import { ParallelCoordinates } from "./parallel_coordinates.ts";
import { PickedCurves } from "./picked_curves.ts";

customElements.define("filter-box", FilterBox);
customElements.define("column-chooser", ColumnChooser);
customElements.define("curve-board", CurveBoard);
customElements.define("picked-curves", PickedCurves);
customElements.define("parallel-coordinates", ParallelCoordinates);
