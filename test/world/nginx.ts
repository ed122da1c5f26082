import { writeFile } from 'node:fs/promises';
import { firstChild, startDaemon, waitForLine } from './daemon.ts';
import { freePort } from './free-port.ts';
import { makeTempDir } from './temp-dir.ts';
import { requireCommand } from './tools.ts';

/** A running nginx. */
export interface Nginx extends AsyncDisposable {
  /** `127.0.0.1:<port>` */
  readonly host: string;
  readonly url: string;
  readonly directory: string;
  stop(): Promise<void>;
}

/** What stands in nginx's `server` block after `listen`, and in `http` before it. */
export interface NginxSite {
  readonly server: string;
  readonly http?: string;
}

const attempts = 5;

/** Starts nginx on a free port of 127.0.0.1; `site` gets the directory that it may write to. */
export async function startNginx(site: (directory: string) => NginxSite): Promise<Nginx> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await startOn(await freePort(), site);
    } catch (error) {
      // Another process used the port first.
      if (attempt === attempts || !String(error).includes('Address already in use')) throw error;
    }
  }
}

/** Relays everything to an HTTP server, tuned: wide buffers, kept connections, no files. */
export function relaySite(upstream: { readonly host: string }): NginxSite {
  return {
    http: `upstream origin { server ${upstream.host}; keepalive 64; }`,
    server: `
      location / {
        proxy_pass http://origin;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $http_host;
        proxy_buffer_size 64k;
        proxy_buffers 16 64k;
        proxy_busy_buffers_size 128k;
        proxy_max_temp_file_size 0;
        proxy_request_buffering off;
      }`,
  };
}

async function startOn(port: number, site: (directory: string) => NginxSite): Promise<Nginx> {
  const directory = await makeTempDir('nginx');
  const host = `127.0.0.1:${port}`;
  await writeFile(directory.join('nginx.conf'), configuration(host, directory.path, site));
  // Workers outlive a master that is killed, but not the end of its process namespace.
  const isolate = ['--pid', '--fork', '--kill-child'];
  const flags = ['-e', 'stderr', '-p', directory.path, '-c', directory.join('nginx.conf')];
  const daemon = startDaemon('unshare', [...isolate, requireCommand('nginx'), ...flags]);
  const stop = async () => {
    // unshare waits for its child and passes no signal on.
    if (daemon.process.exitCode === null) process.kill(await firstChild(daemon.process), 'SIGTERM');
    await daemon.ended;
    await directory.remove();
  };
  try {
    await waitForLine(daemon, /start worker process /);
  } catch (error) {
    await stop();
    throw error;
  }
  const url = `http://${host}`;
  return { host, url, directory: directory.path, stop, [Symbol.asyncDispose]: stop };
}

function configuration(
  host: string,
  directory: string,
  site: (directory: string) => NginxSite,
): string {
  const { http = '', server } = site(directory);
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  const places = kinds.map(kind => `${kind}_temp_path ${directory}/${kind};`).join('\n  ');
  return `
user root;
daemon off;
worker_processes 2;
pid ${directory}/nginx.pid;
error_log stderr notice;
events { worker_connections 1024; }
http {
  access_log off;
  sendfile on;
  tcp_nopush on;
  server_tokens off;
  client_max_body_size 0;
  ${places}
  ${http}
  server {
    listen ${host};
    ${server}
  }
}
`;
}
