import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { clusterDirectory, helmVersions } from '../../test/world/tools.ts';
import { downloadModule, go } from './go-programs.ts';
import { makeFolder } from './make-folder.ts';

const module = 'k8s.io/kubernetes';
const commands = [
  ...['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kube-proxy'],
  ...['kubelet', 'kubectl'],
];
const etcd = 'go.etcd.io/etcd/server/v3';

export function hasCluster(): boolean {
  return existsSync(clusterDirectory());
}

/** Compiles the programs of a Kubernetes cluster, and etcd, from the Go module proxy. */
export async function buildCluster(): Promise<void> {
  const version = helmVersions.kubernetes;
  await makeFolder(
    {
      destination: clusterDirectory(),
      isThere: hasCluster,
      doing: `Compiling for many minutes: Kubernetes ${version}`,
    },
    async folder => {
      const work = join(folder, 'work');
      await mkdir(work, { recursive: true });
      await writeFile(join(work, 'go.mod'), await ownModule(folder, version));
      const programs = join(folder, 'programs');
      const build = ['build', '-C', work, '-mod=mod', '-trimpath', '-buildvcs=false', '-ldflags'];
      const packages = commands.map(name => `${module}/cmd/${name}`);
      await go(folder, ...build, linkerFlags(version), '-o', `${programs}/`, ...packages);
      await go(folder, ...build, '-s -w', '-o', join(programs, 'etcd'), etcd);
      return programs;
    },
  );
}

/**
 * The go.mod of a module that requires Kubernetes. Go cannot compile Kubernetes by itself: its go.mod replaces modules by
 * folders of its repository, which are modules of their own at the proxy.
 */
async function ownModule(folder: string, version: string): Promise<string> {
  const { GoMod } = await downloadModule(folder, `${module}@v${version}`);
  const text = await readFile(GoMod, 'utf8');
  // Such as `k8s.io/api => ./staging/src/k8s.io/api`, whose version is 0.37.2 in Kubernetes 1.37.2.
  const staged = [...text.matchAll(/^\t(\S+) => \.\/staging\//gm)].map(([, name = '']) => name);
  const [, goVersion = ''] = /^go (\S+)$/m.exec(text) ?? [];
  return [
    ...['module cluster', `go ${goVersion}`, `require ${module} v${version}`],
    ...staged.map(name => `replace ${name} => ${name} ${version.replace(/^1\./, 'v0.')}`),
    '',
  ].join('\n');
}

/** Without symbols, and with the version that the programs report and clients compare. */
function linkerFlags(version: string): string {
  const [major = '', minor = ''] = version.split('.');
  const values = { gitVersion: `v${version}`, gitMajor: major, gitMinor: minor };
  const set = Object.entries(values).flatMap(([name, value]) => [
    '-X',
    `k8s.io/component-base/version.${name}=${value}`,
  ]);
  return ['-s', '-w', ...set].join(' ');
}
