import { readFileSync } from 'node:fs';

/**
 * Returns the program and arguments of `npm start`, to run from the project's folder without npm.
 *
 * @param options further options of Node
 */
export function serverCommand(options: readonly string[] = []): string[] {
  const file = new URL('../../package.json', import.meta.url);
  const { scripts } = JSON.parse(readFileSync(file, 'utf8')) as { scripts: { start: string } };
  const [exec, ...words] = scripts.start.split(' ');
  const node = words.indexOf('node');
  if (exec !== 'exec' || node < 0) throw new Error(`Unexpected start script: ${scripts.start}`);
  return [...words.slice(0, node), process.execPath, ...options, ...words.slice(node + 1)];
}
