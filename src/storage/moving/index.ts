/** Both sides of a move of rows, and the move. */

export { describeTables, type MoveReport, moveRows, type RowsSide } from './move-rows.ts';
export { openPostgresSide } from './postgres-side.ts';
export { openSqliteSide } from './sqlite-side.ts';
