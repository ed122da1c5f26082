/**
 * Loaded into the server under test with `--import`, and so into each of its threads, which answer nothing and start
 * faster without the check.
 */
import { isMainThread } from 'node:worker_threads';

if (isMainThread) (await import('./checked-responses.ts')).checkResponses();
