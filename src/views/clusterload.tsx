import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { ClusterInfo, GpuInfo } from '../api/schema';
import { formatBytesOf, formatPercent, formatValue } from '../model/format';
import { hostSpreads } from '../model/outlierranking';
import { Bar } from './controls';
import { namesText } from './spreadtable';

// More GPUs than this are summarized.
const MOST_BARS = 16;

/** The total use of a cluster's cores, memory and GPUs. */
export function Load(props: { cluster: ClusterInfo; trans: TranslationBundle }): React.ReactElement | null {
  const { cluster, trans } = props;
  const { hosts } = cluster;
  if (hosts.length === 0) {
    return null;
  }
  const sum = (of: (host: (typeof hosts)[number]) => number) => hosts.reduce((total, host) => total + of(host), 0);
  const threads = sum(host => host.threads);
  const cpu = threads > 0 ? sum(host => host.cpu) / threads : 0;
  const [used, memory] = [sum(host => host.memory_used_bytes), sum(host => host.memory_bytes)];
  return (
    <div className="jp-dtf-load">
      <Bar fraction={cpu} label={trans.__('%1 of %2 cores in use', formatPercent(cpu), threads)} />
      <span className="jp-dtf-number">{trans.__('%1 CPU', formatPercent(cpu))}</span>
      <span className="jp-dtf-number jp-dtf-memory" title={trans.__('memory in use and the limit')}>
        {formatBytesOf(used, memory)}
      </span>
      {sum(host => host.gpus.length) > MOST_BARS ? (
        <ManyGpus cluster={cluster} trans={trans} />
      ) : (
        hosts
          .flatMap(host => host.gpus.map(gpu => ({ host: host.name, gpu })))
          .map(({ host, gpu }) => <GpuLoad key={`${host}/${gpu.index}`} gpu={gpu} trans={trans} />)
      )}
    </div>
  );
}

/** Statistics of all GPUs, with the names of outliers. */
function ManyGpus(props: { cluster: ClusterInfo; trans: TranslationBundle }): React.ReactElement {
  const { cluster, trans } = props;
  const { gpu: load, gpuMemory } = hostSpreads(cluster.hosts);
  const gpus = cluster.hosts.flatMap(host => host.gpus);
  const whole = gpus.reduce((total, gpu) => total + gpu.memory_bytes, 0);
  const mean = load?.mean ?? 0;
  const words = load
    ? trans.__('%1 GPUs, from %2 to %3', load.count, formatPercent(load.low.value), formatPercent(load.high.value))
    : trans.__('%1 GPUs', gpus.length);
  return (
    <>
      <Bar kind="gpu" fraction={mean} label={words} />
      <span className="jp-dtf-number" title={words}>
        {trans.__('%1 of %2 GPUs', formatPercent(mean), gpus.length)}
      </span>
      <span className="jp-dtf-number jp-dtf-memory">
        {gpuMemory && formatBytesOf(gpuMemory.mean * gpuMemory.count, whole)}
      </span>
      {load && load.outliers.length > 0 && (
        <span className="jp-dtf-load-far jp-dtf-note">
          {trans.__('Outliers: %1.', namesText(load.outliers, trans))}
        </span>
      )}
    </>
  );
}

function GpuLoad(props: { gpu: GpuInfo; trans: TranslationBundle }): React.ReactElement {
  const { gpu, trans } = props;
  const { power_watts: power, temperature_celsius: temperature } = gpu; // a cluster of an older version has neither
  const label = [
    `GPU ${gpu.index}`,
    gpu.name,
    ...(typeof power === 'number' ? [formatValue(Math.round(power), 'W')] : []),
    ...(typeof temperature === 'number' ? [formatValue(temperature, '°C')] : [])
  ].join(', ');
  return (
    <>
      <Bar kind="gpu" fraction={gpu.utilization} label={label} />
      <span className="jp-dtf-number">{trans.__('%1 GPU %2', formatPercent(gpu.utilization), gpu.index)}</span>
      <span className="jp-dtf-number jp-dtf-memory">{formatBytesOf(gpu.memory_used_bytes, gpu.memory_bytes)}</span>
    </>
  );
}
