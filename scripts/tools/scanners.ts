import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import {
  grypeDirectory,
  grypeVersion,
  trivyDirectory,
  trivyVersion,
} from '../../test/world/tools.ts';
import { installProgram } from './go-programs.ts';
import { makeFolder } from './make-folder.ts';

export const hasGrype = () => existsSync(grypeDirectory());
export const hasTrivy = () => existsSync(trivyDirectory());

/** Compiles Grype from the Go module proxy. */
export const buildGrype = () =>
  build(grypeDirectory(), `github.com/anchore/grype/cmd/grype@v${grypeVersion}`);

/** Compiles Trivy from the Go module proxy, which takes long. It uses the second version of Go's package for JSON. */
export const buildTrivy = () =>
  build(trivyDirectory(), `github.com/aquasecurity/trivy/cmd/trivy@v${trivyVersion}`, {
    GOEXPERIMENT: 'jsonv2',
  });

async function build(
  destination: string,
  program: string,
  env: Readonly<Record<string, string>> = {},
): Promise<void> {
  const wanted = {
    destination,
    isThere: () => existsSync(destination),
    doing: `Compiling ${basename(program)}`,
  };
  await makeFolder(wanted, async folder => {
    await installProgram(folder, program, env);
    return folder;
  });
}
