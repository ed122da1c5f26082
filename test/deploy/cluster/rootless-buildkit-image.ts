import { appendFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { directoryTree } from '../../../src/buildkit/index.ts';
import { copyProgram } from '../../world/hub-images.ts';
import { buildImageFile, copyBuildkit, copyBusybox } from '../../world/image-files.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { requireCommand } from '../../world/tools.ts';

/**
 * Makes an image like `moby/buildkit:rootless`, with its user, variables and entry point. Source: Dockerfile of BuildKit
 * 0.34, stage `rootless`.
 */
export async function makeRootlessBuildkitImage(
  builder: string,
  name: string,
  file: string,
): Promise<void> {
  await using files = await makeTempDir('rootless-buildkit-image');
  const into = files.path;
  await copyBusybox(into, ['runc']);
  await copyBuildkit(into);
  for (const program of ['rootlesskit', 'setcap', ...mappers]) {
    await copyProgram(into, requireCommand(program), `usr/bin/${program}`);
  }
  await appendFile(join(into, 'etc/passwd'), 'user:x:1000:1000::/home/user:/bin/sh\n');
  await appendFile(join(into, 'etc/group'), 'user:x:1000:\n');
  for (const list of ['subuid', 'subgid']) {
    await writeFile(join(into, 'etc', list), 'user:100000:65536\n');
  }
  const context = directoryTree(into);
  await buildImageFile(builder, { dockerfile, context }, name, file);
}

/** They map users into a namespace, as their owner: as root, those of Debian need more rights than a container has. */
const mappers = ['newuidmap', 'newgidmap'];

const dockerfile = `
FROM scratch
COPY . /
RUN chmod 755 ${mappers.map(name => `/usr/bin/${name}`).join(' ')} \\
  && setcap cap_setuid=ep /usr/bin/newuidmap && setcap cap_setgid=ep /usr/bin/newgidmap \\
  && mkdir -p /run/user/1000 /home/user/.local/tmp /home/user/.local/share/buildkit \\
  && chown -R 1000:1000 /run/user/1000 /home/user && chmod 1777 /tmp
ENV HOME=/home/user USER=user XDG_RUNTIME_DIR=/run/user/1000 TMPDIR=/home/user/.local/tmp \\
  BUILDKIT_HOST=unix:///run/user/1000/buildkit/buildkitd.sock
USER 1000:1000
VOLUME /home/user/.local/share/buildkit
ENTRYPOINT ["rootlesskit", "buildkitd"]
`;
