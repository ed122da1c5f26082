import { outputClosed } from './exit-codes.ts';

/**
 * Ends this process when the reader of its standard output is gone, as in `sluice logs ... | head`. Without this, the next
 * output ends it with a stack trace.
 */
export function endWithoutReader(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit(outputClosed);
  });
}
