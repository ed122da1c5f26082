import { join } from 'node:path';
import { makeFolder, type WantedFolder } from './make-folder.ts';
import { run } from './run.ts';

/** Runs a command of Go, whose programs go into the folder. Its caches can be removed like other files. */
export function go(folder: string, ...args: string[]): Promise<string> {
  return run('nice', ['-n', '19', 'go', ...args], {
    GOBIN: folder,
    CGO_ENABLED: '0',
    GOFLAGS: `${process.env.GOFLAGS ?? ''} -modcacherw`.trim(),
  });
}

/** Compiles a program from the Go module proxy, such as `example.org/cmd/program@v1.2.3`, into the folder. */
export async function installProgram(folder: string, program: string): Promise<void> {
  await go(folder, 'install', '-trimpath', '-buildvcs=false', '-ldflags', '-s -w', program);
}

interface SourceProgram extends WantedFolder {
  /** The folder of its sources, with a `go.sum`. */
  readonly source: string;
  readonly program: string;
}

/** Compiles a program of the tests, with its libraries from the Go module proxy. */
export async function buildFromSource({
  source,
  program,
  ...wanted
}: SourceProgram): Promise<void> {
  await makeFolder(wanted, async folder => {
    const flags = ['-trimpath', '-buildvcs=false', '-ldflags', '-s -w'];
    await go(folder, 'build', '-C', source, ...flags, '-o', join(folder, program), '.');
    return folder;
  });
}
