import { existsSync } from 'node:fs';
import { grypeDirectory, grypeVersion } from '../../test/world/tools.ts';
import { installProgram } from './go-programs.ts';
import { makeFolder } from './make-folder.ts';

const module = 'github.com/anchore/grype/cmd/grype';

export function hasGrype(): boolean {
  return existsSync(grypeDirectory());
}

/** Compiles Grype from the Go module proxy. */
export async function buildGrype(): Promise<void> {
  await makeFolder(
    {
      destination: grypeDirectory(),
      isThere: hasGrype,
      doing: `Compiling Grype ${grypeVersion}`,
    },
    async folder => {
      await installProgram(folder, `${module}@v${grypeVersion}`);
      return folder;
    },
  );
}
