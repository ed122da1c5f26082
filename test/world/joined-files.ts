import { after, suite } from 'node:test';
import { pathToFileURL } from 'node:url';

// Of one file, on a busy machine.
const longestMs = 600_000;

/**
 * Runs the tests of several files in this process, one file after the other, each as a suite: their hooks stay theirs. A start of Node and the
 * loading of what all of them import take longer than the tests of most files.
 *
 * @param files paths from the project's folder, which is the working directory
 */
export function joinFiles(files: readonly string[]): void {
  const open = new Set(files);
  for (const file of files) {
    suite(file, { timeout: longestMs }, async () => {
      after(() => open.delete(file));
      try {
        await import(pathToFileURL(file).href);
      } catch (error) {
        open.delete(file);
        throw error;
      }
    });
  }
  process.once('exit', () => {
    const [first] = open;
    if (first === undefined) return;
    process.exitCode ||= 1;
    console.error(
      `The process ended during the tests of ${first}; ${open.size} files have not run`,
    );
  });
}
