/** Copies the write-ahead log of a database into its file, on a thread that may wait for the disk. */
import { parentPort, workerData } from 'node:worker_threads';
import Database from 'better-sqlite3';
import type { Checkpointed, CheckpointOrder } from './checkpoints.ts';

const { path } = workerData as { readonly path: string };
const database = new Database(path, { fileMustExist: true });
// Syncs the log before it is copied, and the file before the log restarts.
database.pragma('synchronous = NORMAL');

parentPort?.on('message', (order: CheckpointOrder) => {
  if (order === 'close') {
    database.close();
    parentPort?.close();
    return;
  }
  parentPort?.postMessage(resultOf(order));
});

function resultOf(order: CheckpointOrder): Checkpointed {
  try {
    const [row] = database.pragma('wal_checkpoint(PASSIVE)') as [Row];
    const isWhole = row.busy === 0 && row.log === row.checkpointed;
    // The next writer restarts the log and waits for the disk meanwhile, so this thread is that writer. The schema
    // number stays the same.
    if (order === 'finish' && isWhole) {
      database.pragma(`user_version = ${database.pragma('user_version', { simple: true })}`);
    }
    return { pages: row.log, isWhole };
  } catch (error) {
    return { pages: 0, isWhole: false, failure: String(error) };
  }
}

interface Row {
  readonly busy: number;
  readonly log: number;
  readonly checkpointed: number;
}
