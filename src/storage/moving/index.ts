/** Both sides of a move of rows, and the move. */

export { type MoveReport, moveRows } from './move-rows.ts';
export { openPostgresSide } from './postgres-side.ts';
export type { RowsSide } from './rows-side.ts';
export { openSqliteSide } from './sqlite-side.ts';
export { describeTables } from './table-descriptions.ts';
