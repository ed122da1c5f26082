import { existsSync } from 'node:fs';
import { objectStoreDirectory, objectStoreVersion } from '../../test/world/tools.ts';
import { installProgram } from './go-programs.ts';
import { makeFolder } from './make-folder.ts';

const module = 'github.com/versity/versitygw/cmd/versitygw';

export function hasObjectStore(): boolean {
  return existsSync(objectStoreDirectory());
}

/** Compiles an S3-compatible object store from the Go module proxy. */
export async function buildObjectStore(): Promise<void> {
  await makeFolder(
    {
      destination: objectStoreDirectory(),
      isThere: hasObjectStore,
      doing: `Compiling versitygw ${objectStoreVersion}`,
    },
    async folder => {
      await installProgram(folder, `${module}@v${objectStoreVersion}`);
      return folder;
    },
  );
}
