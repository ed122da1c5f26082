/** Writes what is made from the code: `npm run generate`. Continuous integration wants no difference. */
import { readFileSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { readVersion } from '../src/foundation/version.ts';
import { describeJsonApi } from '../src/http/api/json-api.ts';
import { describePlatformApi } from '../src/http/platform/platform-api.ts';
import {
  accountFileSettings,
  builderTlsSettings,
  registrySettings,
  type Setting,
  settings,
} from '../src/server/config/settings.ts';
import { fieldsPage } from './fields-page.ts';

const docs = new URL('../docs/', import.meta.url);

writeFileSync(new URL('configuration.md', docs), configurationPage());
writeFileSync(new URL('fields.md', docs), fieldsPage());
const { version } = readVersion();
writeJson('openapi.json', describeJsonApi(version));
writeJson('platform-openapi.json', describePlatformApi(version));

// The page of the API: packed, so that it weighs little in the package, and without its other builds.
const renderer = new URL('../node_modules/swagger-ui-dist/', import.meta.url);
for (const [name, from] of [
  ['swagger-ui.js.gz', 'swagger-ui-bundle.js'],
  ['swagger-ui.css.gz', 'swagger-ui.css'],
] as const) {
  const text = readFileSync(new URL(from, renderer), 'utf8');
  const bare = text.replace(/\n\/[/*]# sourceMappingURL=\S+(?: \*\/)?\s*$/, '\n');
  writeFileSync(new URL(`page/${name}`, docs), gzipSync(bare, { level: 9 }));
}
for (const name of ['LICENSE', 'NOTICE']) {
  writeFileSync(new URL(`page/${name}`, docs), readFileSync(new URL(name, renderer)));
}

function writeJson(name: string, value: object): void {
  writeFileSync(new URL(name, docs), `${JSON.stringify(value, null, 2)}\n`);
}

function configurationPage(): string {
  return `# Configuration

Settings come from the environment, else from the YAML file that \`SLUICE_CONFIG\` names, else they have
their default. Sizes are written as \`10 MiB\`, times as \`30s\` or \`36h\`, rates as \`250/hour\`, \`0\` (none)
or \`off\` (no limit).
Lists are separated by commas in the environment. A wrong setting stops the start with a sentence.

This page is made from the schema by \`npm run generate\`.

| in the file | environment variable | default | meaning |
|---|---|---|---|
${settings
  .filter(({ variable }) => variable !== undefined)
  .map(row)
  .join('\n')}

## Proxies

The environment variables \`HTTPS_PROXY\`, \`HTTP_PROXY\` and \`NO_PROXY\` (upper or lower case) hold for every connection
of the server to another host. A proxy is an \`http://\` or \`https://\` URL, with a name and password if it requires
them. \`NO_PROXY\` lists, separated by commas, what is connected to directly: host names (with the names below them),
addresses, networks such as \`10.0.0.0/8\`, each name or address with a port if needed, or \`*\`. List \`127.0.0.1\` and
\`localhost\` for registries on the same machine. Private addresses stay closed behind a proxy
([ADR 31](adr/0031-proxies-and-the-address-guard.md)): Sluice looks up the name and gives the proxy a checked
address. Where only the proxy can look up names, or its rules are about names, set \`upstream.proxyNames\`.

## Account files

In the file only: \`accountFiles:\` lists \`htpasswd\` files. What their accounts may do is written here, so that
nobody becomes an administrator by a line in such a file. A name may be listed once in all files and \`accounts\`.

| setting | default | meaning |
|---|---|---|
${accountFileSettings.map(registryRow).join('\n')}

\`\`\`yaml
accountFiles:
  - file: /etc/sluice/htpasswd
    repositories: { "team/*": push }
    administrators: [ada]
\`\`\`

\`htpasswd -B /etc/sluice/htpasswd ada\` adds an account or changes its password; \`htpasswd -D\` removes it. A removed
account loses its rights within seconds. A token that a registry client got with an old password lasts five minutes.

## Registries

In the file only: \`registries:\` maps a registry's host, exact and with its port, to its settings. A
registry at a loopback, private or link-local address is refused unless it is listed.

| setting | default | meaning |
|---|---|---|
${registrySettings.map(registryRow).join('\n')}

\`\`\`yaml
registries:
  registry.example.com:
    username: reader
    password: secret
    anonymous: true      # these credentials also serve callers without a login
  127.0.0.1:5000:
    plainHttp: true
    blobs: cache
\`\`\`

## Builders with TLS

In the file only: \`buildkitTls:\` maps the address of a builder, as it stands in \`buildkit\`, to its certificates. The
files are checked at the start and read again when they have changed.

| setting | default | meaning |
|---|---|---|
${builderTlsSettings.map(registryRow).join('\n')}

\`\`\`yaml
buildkit: [tcp://builder-1.example.com:1234, tcp://10.0.0.7:1234]
buildkitTls:
  tcp://builder-1.example.com:1234: { ca: ca.pem, certificate: client.pem, key: client.key }
  tcp://10.0.0.7:1234: { ca: other-ca.pem, certificate: other.pem, key: other.key, serverName: builder-2 }
\`\`\`
`;
}

function row({ path, variable, default: value, description }: Setting): string {
  return `| \`${path.join('.')}\` | \`${variable}\` | ${code(value)} | ${description} |`;
}

function registryRow({ path, default: value, description }: Setting): string {
  return `| \`${path.at(-1)}\` | ${code(value)} | ${description} |`;
}

function code(value: unknown): string {
  if (value === undefined || (typeof value === 'object' && Object.keys(value ?? {}).length === 0)) {
    return '';
  }
  return `\`${Array.isArray(value) ? value.join(',') : String(value)}\``;
}
