import { serveTask } from '../threads/one-task.ts';
import { readLockText } from './read-lock-text.ts';

/** A lock file to read. */
export interface LockOrder {
  readonly text: string;
  readonly subdir: string;
  readonly name: string;
}

serveTask(({ text, subdir, name }: LockOrder) => readLockText(text, subdir, name));
