/**
 * The name server of the cluster: `<service>.<namespace>.svc.cluster.local`, as Kubernetes specifies it, and names that
 * stand for a service or an address. `node name-server-program.ts <address> <access> <names>`, both in JSON
 */
import { createSocket } from 'node:dgram';
import { readFileSync } from 'node:fs';
import { request } from 'node:https';

interface Access {
  readonly authority: string;
  readonly token: string;
}

const [address = '', access = '{}', aliases = '{}'] = process.argv.slice(2);
const { authority, token } = JSON.parse(access) as Access;
const services = JSON.parse(aliases) as Readonly<Record<string, string>>;
const ca = readFileSync(authority);

const refused = 3;
const addressType = 1;

/** Reads from the API server; undefined for what does not exist. */
function read<T>(path: string): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}` };
    const asked = request(`https://127.0.0.1:6443${path}`, { ca, headers }, response => {
      let text = '';
      response.setEncoding('utf8').on('data', chunk => {
        text += chunk;
      });
      response.on('end', () => resolve(response.statusCode === 200 ? JSON.parse(text) : undefined));
    });
    asked.on('error', reject);
    asked.end();
  });
}

interface Service {
  readonly spec: { readonly clusterIP: string };
}

interface Slices {
  readonly items: readonly {
    readonly endpoints: readonly {
      readonly addresses: readonly string[];
      readonly conditions: { readonly ready?: boolean };
    }[];
  }[];
}

/** The addresses of a name; undefined for one that does not exist. */
async function addressesOf(name: string): Promise<readonly string[] | undefined> {
  const full = services[name] ?? name;
  if (/^[\d.]+$/.test(full)) return [full];
  const [, service, namespace] = /^([^.]+)\.([^.]+)\.svc\.cluster\.local$/.exec(full) ?? [];
  if (!service) return undefined;
  const found = await read<Service>(`/api/v1/namespaces/${namespace}/services/${service}`);
  if (!found) return undefined;
  if (found.spec.clusterIP !== 'None') return [found.spec.clusterIP];
  const selector = encodeURIComponent(`kubernetes.io/service-name=${service}`);
  const path = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;
  const slices = await read<Slices>(`${path}?labelSelector=${selector}`);
  const endpoints = slices?.items.flatMap(slice => slice.endpoints ?? []) ?? [];
  return endpoints.filter(({ conditions }) => conditions.ready).flatMap(one => one.addresses);
}

/** The name in a question, which begins after the header, and where it ends. Source: RFC 1035, section 4.1.2. */
function readName(message: Buffer): { name: string; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let size = message[at] ?? 0; size > 0; size = message[at] ?? 0) {
    labels.push(message.toString('latin1', at + 1, at + 1 + size));
    at += 1 + size;
  }
  return { name: labels.join('.').toLowerCase(), end: at + 1 };
}

function responseTo(question: Buffer, end: number, found: readonly string[] | undefined): Buffer {
  const wantsAddress = question.readUInt16BE(end) === addressType;
  const records = (wantsAddress ? (found ?? []) : []).map(one =>
    // The name of the question, an address of the Internet, for one second.
    Buffer.from([0xc0, 12, 0, addressType, 0, 1, 0, 0, 0, 1, 0, 4, ...one.split('.').map(Number)]),
  );
  const header = Buffer.alloc(12);
  header.writeUInt16BE(question.readUInt16BE(0), 0);
  header.writeUInt16BE(0x8580 | (found ? 0 : refused), 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(records.length, 6);
  return Buffer.concat([header, question.subarray(12, end + 4), ...records]);
}

const socket = createSocket('udp4');
socket.on('message', async (question, { address: from, port }) => {
  try {
    const { name, end } = readName(question);
    socket.send(responseTo(question, end, await addressesOf(name)), port, from);
  } catch (error) {
    // The client asks again.
    console.error(error);
  }
});
socket.bind(53, address, () => console.log('listening'));
