import { makeCertificates } from '../../test/world/certificates.ts';
import { freePort } from '../../test/world/free-port.ts';
import { type Nginx, startNginx } from '../../test/world/nginx.ts';
import type { Registry } from '../../test/world/registry.ts';
import { makeTempDir } from '../../test/world/temp-dir.ts';

/** A registry whose blobs nginx serves from the disk: the fastest possible upstream. */
export interface Origin extends AsyncDisposable {
  readonly host: string;
  /** The same over TLS. */
  readonly secureHost: string;
  /** PEM file of its authority. */
  readonly authority: string;
}

export async function startOrigin(registry: Registry): Promise<Origin> {
  const directory = await makeTempDir('origin');
  const certificates = await makeCertificates(directory.path);
  const secureHost = `127.0.0.1:${await freePort()}`;
  const nginx: Nginx = await startNginx(() => ({
    server: `
    listen ${secureHost} ssl;
    ssl_certificate ${certificates.certificate};
    ssl_certificate_key ${certificates.key};
    location / {
      proxy_pass http://${registry.host};
      proxy_set_header Host $http_host;
    }
    location ~ "^/v2/.+/blobs/sha256:(..)(.+)$" {
      alias ${registry.directory}/data/docker/registry/v2/blobs/sha256/$1/$1$2/data;
      default_type application/octet-stream;
    }`,
  }));
  return {
    host: nginx.host,
    secureHost,
    authority: certificates.authority,
    async [Symbol.asyncDispose]() {
      await nginx.stop();
      await directory.remove();
    },
  };
}
