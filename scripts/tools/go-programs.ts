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
