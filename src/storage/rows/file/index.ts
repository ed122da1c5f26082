/** The file of SQLite, as a backup and a move of rows use it. */

export { openDatabase, type ServerUse } from '../database.ts';
export type { ClockReading, ClockReadingStore } from './identity-rows.ts';
export { removeDatabase, syncFile } from './rows-upkeep.ts';
