import { cp, readFile, symlink, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { serverCommand } from './server-command.ts';
import { makeTempDir } from './temp-dir.ts';

/** A copy of the project that counts as a newer version. */
export interface NextVersion extends AsyncDisposable {
  readonly version: string;
  /** Starts its server, see `SluiceOptions`. */
  readonly command: readonly string[];
  /** Servers that start from now on add a table to the rows in PostgreSQL. */
  changeSchema(): Promise<void>;
}

const project = new URL('../../', import.meta.url);
const version = '99.0.0';
const schema = 'src/storage/rows/postgres/postgres-schema.ts';

export async function makeNextVersion(): Promise<NextVersion> {
  const directory = await makeTempDir('next-version');
  const from = (path: string) => fileURLToPath(new URL(path, project));
  for (const path of ['src', 'bin']) {
    await cp(from(path), directory.join(path), { recursive: true });
  }
  await symlink(from('node_modules'), directory.join('node_modules'));
  const text = JSON.parse(await readFile(from('package.json'), 'utf8')) as object;
  await writeFile(directory.join('package.json'), JSON.stringify({ ...text, version }));
  const program = 'bin/sluice.js';
  return {
    version,
    command: serverCommand().map(word => (word === program ? directory.join(program) : word)),
    async changeSchema() {
      const steps = await readFile(directory.join(schema), 'utf8');
      const end = steps.lastIndexOf('];');
      const added = `, 'CREATE TABLE of_the_next_version (id BIGINT)'];`;
      await writeFile(
        directory.join(schema),
        `${steps.slice(0, end)}${added}${steps.slice(end + 2)}`,
      );
    },
    [Symbol.asyncDispose]: directory.remove,
  };
}
