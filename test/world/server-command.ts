import { readFileSync } from 'node:fs';
import { requireCommand } from './tools.ts';

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
  const [env = '', ...variables] = words.slice(0, node);
  // A test may give the server another search path.
  const program = [requireCommand(env), ...variables, process.execPath];
  return [...program, ...options, ...words.slice(node + 1)];
}
