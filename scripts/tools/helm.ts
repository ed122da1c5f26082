import { existsSync } from 'node:fs';
import { copyFile, mkdir, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { helmDirectory, helmVersions } from '../../test/world/tools.ts';
import { go, installProgram } from './go-programs.ts';
import { lock } from './lock.ts';

export function hasHelm(): boolean {
  return existsSync(helmDirectory());
}

/** Compiles Helm and kubeconform from the Go module proxy, and keeps the schema of Kubernetes beside them. */
export async function buildHelm(): Promise<void> {
  const destination = helmDirectory();
  using _lock = await lock(basename(destination));
  if (hasHelm()) return;
  const { helm, kubeconform, kubernetes } = helmVersions;
  console.log(`Compiling Helm ${helm} and kubeconform ${kubeconform} to ${destination}`);
  const folder = `${destination}.unfinished`;
  await rm(folder, { recursive: true, force: true });
  try {
    await mkdir(folder, { recursive: true });
    await installProgram(folder, `github.com/yannh/kubeconform/cmd/kubeconform@v${kubeconform}`);
    await installProgram(folder, `helm.sh/helm/v4/cmd/helm@v${helm}`);
    const found = await go(folder, 'mod', 'download', '-json', `k8s.io/kubernetes@v${kubernetes}`);
    const { Dir: source, Zip: zip } = JSON.parse(found) as { Dir: string; Zip: string };
    await copyFile(join(source, 'api/openapi-spec/swagger.json'), join(folder, 'kubernetes.json'));
    await Promise.all([source, zip].map(path => rm(path, { recursive: true, force: true })));
    await rename(folder, destination);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
