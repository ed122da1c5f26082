import { compileModule } from './buildkit-go.ts';
import { compilerRoot } from './compiler-root.ts';

/** Compiles BuildKit with Debian's Go, whose version in the backports is new enough. */
export async function buildWithDebiansGo(result: string, scratch: string): Promise<void> {
  const root = await compilerRoot(scratch, ['backports']);
  const backports = ['-t', root.backports, 'golang-go'];
  await root.run('apt-get', 'install', '-y', ...backports, 'ca-certificates');
  await root.trustAsHost();
  await compileModule(root.run, '/result');
  await root.fetch('/result', result);
}
