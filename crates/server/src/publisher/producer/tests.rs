use super::*;
use clap::Parser;

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    kafka: KafkaConfig,
}

fn sink(format: RecordFormat) -> KafkaSink {
    KafkaSink {
        sink_type: "kafka",
        // no broker answers there
        bootstrap_servers: "127.0.0.1:1".to_owned(),
        topic: "t".to_owned(),
        format,
        tombstones: false,
    }
}

fn settings(flags: &[&str]) -> KafkaConfig {
    Flags::try_parse_from([&["hoglake"], flags].concat()).unwrap_or_else(|error| panic!("{error}")).kafka
}

#[test]
fn every_way_to_log_in_makes_a_client() {
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        for protocol in ["sasl_plaintext", "sasl_ssl"] {
            let settings = settings(&[
                "--kafka-security-protocol",
                protocol,
                "--kafka-sasl-mechanism",
                mechanism,
                "--kafka-sasl-username",
                "hog",
                "--kafka-sasl-password",
                "s3cret",
            ]);
            settings.check().unwrap();
            assert!(Producer::new(&sink(RecordFormat::Json), &settings).is_ok(), "{mechanism} over {protocol}");
            assert!(!format!("{settings:?}").contains("s3cret"));
        }
    }
    for codec in ["zstd", "lz4"] {
        assert!(Producer::new(&sink(RecordFormat::ArrowIpc), &settings(&["--kafka-compression", codec])).is_ok());
    }
}

#[test]
fn half_a_login_is_refused() {
    for flags in [
        &["--kafka-security-protocol", "sasl_ssl"][..],
        &["--kafka-sasl-username", "hog"],
        &["--kafka-ssl-key-file", "/nowhere"],
        &["--publication-lease-ms", "10"],
    ] {
        assert!(settings(flags).check().is_err(), "{flags:?}");
    }
}

#[test]
fn the_records_of_a_table_are_in_one_partition() {
    let of = |key: &str| OnePartition.partition("t", Some(key.as_bytes()), 7, |_| true);
    let first = of("6f1c:1");
    assert!((0..7).contains(&first));
    assert!((2..99).all(|row| of(&format!("6f1c:{row}")) == first));
    assert!((0..99).any(|table| of(&format!("{table}:1")) != first));
}

#[test]
fn a_full_queue_ends_when_it_may_not_go_on() {
    let settings = settings(&["--kafka-queue-bytes", "1048576"]);
    let producer = Producer::new(&sink(RecordFormat::Json), &settings).unwrap();
    let pending = producer.begin();
    let value = vec![b'x'; 300_000];
    let sent = (0..20).map(|_| producer.send(&pending, b"k", Some(&value), None, &|| false));
    let ended: Vec<_> = sent.take_while(Result::is_ok).collect();
    assert!((3..6).contains(&ended.len()), "{}", ended.len());
    assert_eq!(producer.send(&pending, b"k", Some(&value), None, &|| false), Err(Trouble::Lost));
    assert_eq!(pending.is_acknowledged(), Ok(false));
    let large = vec![b'x'; 1_100_000];
    let refused = producer.send(&pending, b"k", Some(&large), None, &|| true);
    assert!(matches!(refused, Err(Trouble::Halt(words)) if words.contains("larger than allowed")));
}

#[tokio::test]
async fn a_producer_that_was_given_up_sends_nothing_more() {
    let producer =
        Arc::new(Producer::new(&sink(RecordFormat::Json), &settings(&[])).unwrap_or_else(|_| panic!("a client")));
    let left_behind = Arc::clone(&producer);
    let (sending, begun) = std::sync::mpsc::channel();
    let encoder = std::thread::spawn(move || {
        let pending = left_behind.begin();
        loop {
            if let Err(trouble) = left_behind.send(&pending, b"key", Some(b"value"), None, &|| true) {
                return trouble;
            }
            let _ = sending.send(());
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    begun.recv().unwrap();
    discard(producer).await;
    assert!(matches!(encoder.join().unwrap(), Trouble::Lost));
}
