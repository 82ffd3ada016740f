//! A bare librdkafka loop: reads a topic into memory, produces the same keys and values to another one as fast as it can,
//! with the settings of publications, and waits for the last acknowledgement. Prints one JSON object.

use clap::Parser;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use std::time::{Duration, Instant};

#[derive(Parser)]
struct Arguments {
    /// `host:port`
    #[arg(long)]
    brokers: String,
    /// Topic to take keys and values from
    #[arg(long)]
    from: String,
    /// Topic to produce to
    #[arg(long)]
    to: String,
    /// Compression
    #[arg(long, default_value = "zstd")]
    compression: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let records = read(&arguments)?;
    let bytes: usize = records.iter().map(|(_, value)| value.len()).sum();
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &arguments.brokers)
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("compression.type", &arguments.compression)
        .set("linger.ms", "5")
        .set("partitioner", "murmur2_random")
        .set("queue.buffering.max.kbytes", "16384")
        .set("queue.buffering.max.messages", "50000")
        .create()?;
    let begun = Instant::now();
    for (index, (key, value)) in records.iter().enumerate() {
        let mut record = BaseRecord::to(&arguments.to).key(key).payload(value);
        while let Err((error, back)) = producer.send(record) {
            if !matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)) {
                return Err(error.into());
            }
            producer.poll(Duration::from_millis(1));
            record = back;
        }
        if index % 1_000 == 0 {
            producer.poll(Duration::ZERO);
        }
    }
    producer.flush(Duration::from_secs(120))?;
    let seconds = begun.elapsed().as_secs_f64();
    println!("{}", serde_json::json!({"records": records.len(), "bytes": bytes, "seconds": seconds}));
    Ok(())
}

fn read(arguments: &Arguments) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Box<dyn std::error::Error>> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &arguments.brokers)
        .set("group.id", "bench")
        .set("enable.auto.commit", "false")
        .create()?;
    let metadata = consumer.fetch_metadata(Some(&arguments.from), Duration::from_secs(30))?;
    let partitions = metadata.topics().first().map(|topic| topic.partitions()).unwrap_or_default();
    let mut assigned = TopicPartitionList::new();
    let mut expected = 0;
    for partition in partitions {
        let (low, high) = consumer.fetch_watermarks(&arguments.from, partition.id(), Duration::from_secs(30))?;
        expected += usize::try_from(high - low)?;
        assigned.add_partition_offset(&arguments.from, partition.id(), Offset::Beginning)?;
    }
    consumer.assign(&assigned)?;
    let mut records = Vec::with_capacity(expected);
    while records.len() < expected {
        let message = consumer.poll(Duration::from_secs(30)).ok_or("the topic ended early")??;
        records.push((message.key().unwrap_or_default().to_vec(), message.payload().unwrap_or_default().to_vec()));
    }
    Ok(records)
}
