import { Fault } from '../../../foundation/fault.ts';
import type { RowsUpkeep } from '../file/rows-upkeep.ts';

/** PostgreSQL looks after its own files: it returns space by itself, and has its own tools for copies. */
export const postgresUpkeep: RowsUpkeep = {
  freeSpace: async () => ({ freeBytes: 0, fileBytes: 0, isReturnable: true }),
  async returnFreeSpace() {},
  async compact() {},
  async copyTo() {
    throw new Fault(
      'bad-request',
      'The rows are in PostgreSQL, which this command does not copy: stop the server, and copy them with pg_dump',
      { phase: 'store' },
    );
  },
};
