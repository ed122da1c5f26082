import { existsSync } from 'node:fs';
import { copyFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { helmDirectory, helmVersions } from '../../test/world/tools.ts';
import { downloadModule, installProgram } from './go-programs.ts';
import { makeFolder } from './make-folder.ts';

export function hasHelm(): boolean {
  return existsSync(helmDirectory());
}

/** Compiles Helm and kubeconform from the Go module proxy, and keeps the schema of Kubernetes beside them. */
export async function buildHelm(): Promise<void> {
  const { helm, kubeconform, kubernetes } = helmVersions;
  await makeFolder(
    {
      destination: helmDirectory(),
      isThere: hasHelm,
      doing: `Compiling Helm ${helm} and kubeconform ${kubeconform}`,
    },
    async folder => {
      await installProgram(folder, `github.com/yannh/kubeconform/cmd/kubeconform@v${kubeconform}`);
      await installProgram(folder, `helm.sh/helm/v4/cmd/helm@v${helm}`);
      const module = `k8s.io/kubernetes@v${kubernetes}`;
      const { Dir: source, Zip: zip } = await downloadModule(folder, module);
      await copyFile(
        join(source, 'api/openapi-spec/swagger.json'),
        join(folder, 'kubernetes.json'),
      );
      await Promise.all([source, zip].map(path => rm(path, { recursive: true, force: true })));
      return folder;
    },
  );
}
