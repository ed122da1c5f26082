import { spawn } from 'node:child_process';

/** Runs a program to its end and returns its output; a failure throws with the output's tail. */
export function run(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, LC_ALL: 'C', DEBIAN_FRONTEND: 'noninteractive', ...env },
    });
    let all = '';
    let out = '';
    child.stdout.on('data', chunk => {
      out += chunk;
      all += chunk;
    });
    child.stderr.on('data', chunk => {
      all += chunk;
    });
    child.on('error', reject);
    child.on('close', code => {
      if (code === 0) return resolve(out);
      const tail = all.trimEnd().split('\n').slice(-15).join('\n');
      reject(new Error(`'${command} ${args.join(' ')}' ended with ${code}:\n${tail}`));
    });
  });
}
