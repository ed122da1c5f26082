import { existsSync } from 'node:fs';
import { metricsServerDirectory, metricsServerVersion } from '../../test/world/tools.ts';
import { installProgram } from './go-programs.ts';
import { makeFolder } from './make-folder.ts';

const module = 'sigs.k8s.io/metrics-server/cmd/metrics-server';

export function hasMetricsServer(): boolean {
  return existsSync(metricsServerDirectory());
}

/** Compiles the server that shows the autoscaler what pods use, from the Go module proxy. */
export async function buildMetricsServer(): Promise<void> {
  await makeFolder(
    {
      destination: metricsServerDirectory(),
      isThere: hasMetricsServer,
      doing: `Compiling metrics-server ${metricsServerVersion}`,
    },
    async folder => {
      await installProgram(folder, `${module}@v${metricsServerVersion}`);
      return folder;
    },
  );
}
