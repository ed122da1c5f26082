/**
 * Returns a condition: there is a row. For a column, and beside `OR`, where PostgreSQL may answer `EXISTS` by reading a
 * whole table for each statement.
 *
 * @param from the table and its condition, as they follow `FROM`
 */
export function isThere(from: string): string {
  return `(SELECT 1 FROM ${from} LIMIT 1) IS NOT NULL`;
}
