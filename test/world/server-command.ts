import { readFileSync } from 'node:fs';

/** The program and arguments of `npm start`, to run from the project's folder without npm. */
export function serverCommand(): string[] {
  const file = new URL('../../package.json', import.meta.url);
  const { scripts } = JSON.parse(readFileSync(file, 'utf8')) as { scripts: { start: string } };
  const words = scripts.start.split(' ').filter(word => word !== 'exec');
  return [process.execPath, ...words.slice(1)];
}
